#include <stdio.h>

int main(void)
{
    puts("kvtwin");
    return 0;
}
